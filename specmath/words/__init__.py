"""All prose: what the numbers of the floors below mean, in sentences. Nothing is computed here that
decides anything; pages, command line and files say the same because they ask here."""
