"""The money of kenari once more, in plain integers and as slowly as it likes: the second opinion on the ledger.

Written from the rules alone and asked by the tests beside it. README.md lists what it decides where rules are silent.
"""
