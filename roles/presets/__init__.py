"""Presets, one file for each family: functions from a request to a topology. `strategies` lists them."""
