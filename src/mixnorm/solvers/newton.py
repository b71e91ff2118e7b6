r"""Newton's method on the active groups, one problem at a time: the solver that reaches the certificate on EEG.

Where w_g ≠ 0 the penalty is smooth, and f is piecewise quadratic: its Hessian H changes only by the trials that cross
the margin. With r_i = |w_i|/‖w_g‖_q, k_i = sign(w_i) r_i^{q/2} (a unit vector in each group) and R = diag(r_i^{1−q/2}),

    ∇² alpha β_g ‖w_g‖_q = c_g R⁻¹ (I − k k') R⁻¹,        c_g = alpha β_g (q − 1) / ‖w_g‖_q,

so that in the variables R⁻¹w every q in (1, 2] has the shape of q = 2: the Newton system is R H R + c (I − k k').
ℓ1 is the case of groups of one coefficient, where the curvature vanishes.

The step is taken in the variable before the prox (Robinson's normal map): u = w + γ ∂Ω(w), w = prox_γΩ(u),
δu = (I + γ ∇²Ω) δw. A group whose u falls inside the dual ball leaves, exactly zero; a group whose gradient has left
its dual ball enters by a proximal step. The next alpha of a path starts from the solution before it, so that the first
step is the predictor along the path.
"""
