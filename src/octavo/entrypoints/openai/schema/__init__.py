"""What a route is, and the OpenAPI document that is made of all of them. Knows no route."""
