"""Planning ahead in priced slots, which PD-ORS and OASiS share (Zhou et al. 2021, Bao et al. 2018)."""
