"""Language models in the service: endpoints, budgets, and stored answers."""
