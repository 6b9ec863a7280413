"""Compiled loops of planning ahead, which PD-ORS and OASiS share: the programme of one slot."""
