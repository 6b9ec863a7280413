"""Planning in priced slots, shared by PD-ORS and OASiS (Yu et al. 2021, Bao et al. 2018)."""
