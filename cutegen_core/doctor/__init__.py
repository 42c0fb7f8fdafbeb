"""Check this machine for what the workbench needs and name the fix for each gap."""
