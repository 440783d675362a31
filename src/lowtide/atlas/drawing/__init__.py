"""Pictures of a cut: a layered layout, and the drawing as SVG or PNG. Imports `cuts` and `tide`."""
