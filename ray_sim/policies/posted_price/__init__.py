"""The posted-price mechanism: menus of prices, failure estimates and launch plans of announced jobs."""
