"""What it takes to run the system: images, dashboards, local servers.
Used by the Makefile, by compose and by the test stack; services never import it.
"""
