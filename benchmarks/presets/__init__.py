"""The strategies of the papers. The command is `presets`."""
