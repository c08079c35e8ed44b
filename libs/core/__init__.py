"""Ids, money, time, errors, settings and retry: what every other module may use; imports nothing of ours."""
