"""Images, sounds and texts with what is known of each, to embed or to train on."""

from modgap.io.items.item import Item, Items
from modgap.io.items.opening import ITEM_FORMATS, open_items

__all__ = ["ITEM_FORMATS", "Item", "Items", "open_items"]
