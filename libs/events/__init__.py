"""What travels on Kafka: the envelope, the topics and one module of event types per owner."""
