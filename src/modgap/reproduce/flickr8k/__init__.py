"""Models trained on Flickr8k with every method of the papers: what was run, and what came out.

``results.json`` holds the figures of each run. ``python -m modgap.reproduce.flickr8k`` makes them
anew; it needs the photos, and a GPU or patience.
"""
