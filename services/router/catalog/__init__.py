"""What is for sale: read from deploy/catalog.yaml and from providers' own lists, checked, applied to the database.

Called by services/router/app.py at start and by ``python -m services.router.catalog check FILE``.
"""
