"""Recurrent layers: products over all steps at once, then the steps."""
