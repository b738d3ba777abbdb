"""Models trained on Flickr8k with every method of the papers: what was run, and what came out.

``results.json`` holds what was measured of each run. ``python -m modgap.reproduce.flickr8k`` makes
it anew; that needs the photos, and a GPU or patience.
"""
