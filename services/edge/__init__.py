"""The public HTTP face of kenari. It keeps no state but caches and a spool."""
