"""mixnorm's first-order method: restarted FISTA on stacks of problems, stopped by the certificate."""

from mixnorm import group_svc_path


class Solver:
    name = "mixnorm fista"
    tolerances = (1e-2, 1e-3, 1e-4, 1e-6)

    def set_objective(self, X, y, alphas):
        self.X, self.y, self.alphas = X, y, alphas

    def run(self, tol):
        self.path = group_svc_path(self.X, self.y, alphas=self.alphas, tol=tol, solver="fista", max_iter=100_000)

    def get_result(self):
        return self.path.coefs, self.path.intercepts
