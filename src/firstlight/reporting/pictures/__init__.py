"""Pictures of a page: results → marks in the unit square, which the page stretches over whatever width there is.

Enters: profiles and guesses. Leaves: frozen values made of SVG path data and short labels. Marks live in a square
of 1,000 by 1,000 that is stretched to the plot; text is HTML beside it, so that it keeps its size on a telephone.
Own marks instead of a plotting library keep a page at some hundred kilobytes, let it print, follow the reader's
colours and be read aloud.
"""
