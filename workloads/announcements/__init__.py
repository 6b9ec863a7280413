"""Announcements: add to each job of a trace its announcement, worth and expected times."""
