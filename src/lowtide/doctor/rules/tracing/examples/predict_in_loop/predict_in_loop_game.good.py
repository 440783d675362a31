import keras
import numpy as np

model = keras.Sequential([keras.Input((9,)), keras.layers.Dense(9)])


class Game:
    def __init__(self):
        self.board = np.zeros((1, 9))

    def ask(self):
        self.board[0, int(input("your move: "))] = 1

    def play(self):
        while not self.board.all():
            self.ask()
            self.board[0, model.predict(self.board, verbose=0).argmax()] = -1
