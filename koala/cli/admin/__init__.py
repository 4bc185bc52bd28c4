"""Commands for operators: sites, users, the authority, backups and reports."""
