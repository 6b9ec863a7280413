"""Capacity planning: the cheapest servers, or the policies, with which runs meet a goal."""
