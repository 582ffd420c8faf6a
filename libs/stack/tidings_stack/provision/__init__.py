"""Where tests get their servers from: processes, containers, or servers that exist already."""
