"""Count what the guide costs and brings: sessions of a played model, menus, ablations."""
