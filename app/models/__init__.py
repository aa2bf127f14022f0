"""Language models in the service: which there are, what they were paid for, what they answered."""
