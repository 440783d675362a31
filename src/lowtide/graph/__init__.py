"""What a program is: nodes, tensors and what each op does with memory."""
