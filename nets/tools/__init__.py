"""What people do with nets and data beside training: convert files, count volumes, time layers."""
