"""Progress policies: corrections for components of a running job that drift apart."""
