"""The console: a web page that shows the cluster to people and takes operators' orders (docs/CONSOLE.md)."""
