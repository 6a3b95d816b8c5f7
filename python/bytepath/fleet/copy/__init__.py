"""Copying a tree by many machines: shared out in pieces (run), each done once as far as the journal knows (journal),
told of meanwhile (progress)."""
