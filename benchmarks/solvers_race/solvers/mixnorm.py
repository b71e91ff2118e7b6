"""mixnorm as its users call it: Newton's method on the active groups, validation and certificate included."""

from mixnorm import group_svc_path


class Solver:
    name = "mixnorm"
    tolerances = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-12)

    def set_objective(self, X, y, alphas):
        self.X, self.y, self.alphas = X, y, alphas

    def run(self, tol):
        self.path = group_svc_path(self.X, self.y, alphas=self.alphas, tol=tol)

    def get_result(self):
        return self.path.coefs, self.path.intercepts
