"""SageMaker hosting: models, endpoint configurations, endpoints that move on the clock, and containers that are really called."""
