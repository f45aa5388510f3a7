"""Jobs over recordings. Each transforms data frames into data frames; `ordo pipeline` runs them with a report."""
