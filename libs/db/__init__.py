"""PostgreSQL: one pool per service, and the command that brings a database's schema up to date."""
