"""Training: from text files to a model.

recipe          the TOML file -> settings
settings        its [train] table
run_directory   the layout of a run on disk
prepare         recipe -> tokenizer, token cache, model, loss
loop            the training loop, and the learning rate of each update
losses          batch -> loss; rdrop and minimum_risk are two other losses
optim           optimizers; muon is one of them
moving_average  of the weights
thread_replicas threads that train together; distributed: processes that do
checkpoint      everything needed to resume
metrics_log     log.jsonl and TensorBoard
export          checkpoints -> a model directory
"""
