"""From [train] to a topology: net and data read, a preset laid out, devices and formats told."""
