"""Reader of announcement profiles: YAML files with a section `announcements`, or bundled ones by name.

`layer_file.py` reads those of scenarios and sweeps, `cli/enrich.py` those of `ray-sim enrich`.
"""

from __future__ import annotations

import hashlib

import workloads
from ray_sim.experiments.inputs.profile_files import Label, ProfileFiles, is_profile_file
from workloads.announcements.profile import AnnouncementDraws, Announcements, OutlookDraws, ValueDraws
from workloads.documents import Entry
from workloads.sources import Source

ANNOUNCEMENT_PROFILES = ProfileFiles("announcement profile", workloads.__path__, "announcements/profiles")


class _ProfileFile(Entry):
    name: Label
    title: str = ""
    announcements: Announcements


def load_announcement_draws(ref: Source) -> AnnouncementDraws:
    """Read an announcement profile from a YAML file or the bundled ones.

    Parameters
    ----------
    ref : a path or URL ending in .yaml or .yml, or the bare name of a bundled profile

    Raises
    ------
    InvalidInputError : the file cannot be read or breaks its rules; every problem is listed
    UnknownNameError : neither a file nor a bundled profile
    """
    parts = (Announcements, ValueDraws, OutlookDraws)
    _, text, file = ANNOUNCEMENT_PROFILES.read_as(ref, _ProfileFile, parts)
    given, digest = file.announcements, hashlib.sha256(text.encode()).hexdigest()
    return AnnouncementDraws(file.name, file.title, digest, given.lead_s, given.value, given.outlook)


def names_announcement_profile(ref: Source) -> bool:
    """Whether this names a bundled announcement profile, or a YAML file with a section `announcements`.

    Raises
    ------
    InvalidInputError : the file cannot be read
    """
    if not is_profile_file(ref):
        return str(ref) in ANNOUNCEMENT_PROFILES.bundled()
    _, _, content = ANNOUNCEMENT_PROFILES.read(ref)
    return isinstance(content, dict) and "announcements" in content
