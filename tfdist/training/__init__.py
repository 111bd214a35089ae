"""From a config or a script to a trained model, inside one worker process."""
