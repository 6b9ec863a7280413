"""One file per scheduler."""
