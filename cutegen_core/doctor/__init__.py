"""The system check: what this machine has of what the workbench needs, and the fix for each gap."""
