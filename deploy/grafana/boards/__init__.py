"""One module per service and the overview; each has its BOARD.
Read by deploy.grafana.build.
"""
