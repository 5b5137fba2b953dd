"""What people do with nets and data beside training.

convert  From one format to another
volumes  How large a net is and how much it computes
timing   How long each layer takes, forward and backward: what users of `caffe time` know
"""
