"""How large the messages of a check stream get, so that none reaches gRPC's cap and breaks the stream for all.

Used by both ends.
"""

MOST_ITEMS = 256
MOST_ITEM_BYTES = 8 * 1024
