"""What an agent is: the bundle's tree, manifest, static checks, revisions and publication."""
