"""Built-in plans: the parameter settings that the papers print, one TOML file each."""
