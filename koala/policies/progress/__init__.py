"""Progress policies: what is done about components of a running job that drift apart."""
