"""Named routes: ordered steps that an account sends as one model (contract: Routing and routes).

Called by services/router/app.py and rpc.py.
"""
